// Package tasks holds the code of docs/tasks.md: ten tasks, each in fewer than 20
// lines besides the imports. A block of the page is a file of this package without
// its first line; the tests run each and hold what the page says that it answers.
package tasks

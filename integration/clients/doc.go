// Package clients shows how each of the usual clients is used by throttleredis:
// copy the file of yours. With these settings clients recover soon after a
// fail-over, and never repeat a call that may have been carried out.
package clients

//go:build !race

package stores

const raced = false

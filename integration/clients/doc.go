// Package clients shows how each of the usual clients is used by
// throttleredis: copy the file of yours. The settings are those that come back
// soon after a fail-over, and never repeat a call that may have been carried
// out.
package clients

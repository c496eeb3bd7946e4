// Package intercept lets an egress proxy pace and retry the requests that callers send by
// HTTPS_PROXY. It terminates the TLS of the hosts that are listed with certificates of a
// local authority (CA), which can speak for these hosts only, and hands the requests inside
// to a handler. The connections to other hosts are refused, or tunnelled if they are listed
// for that.
package intercept

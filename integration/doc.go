// Package integration tries every [store.Store] on the engine that it is made
// for: real Redis, Valkey and PostgreSQL processes on loopback ports, started
// and stopped by package rig, through the clients that people use.
package integration

package main

import "github.com/throttle-go/throttle/pace"

func newLaw(blind bool) pace.Controller { return &pace.Adaptive{Blind: blind} }

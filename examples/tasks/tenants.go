package tasks

import (
	"context"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/load"
)

// ForTenants returns a Throttle in which tenants that pay get three of four calls.
func ForTenants() *throttle.Throttle {
	return &throttle.Throttle{Weights: map[load.Priority]float64{load.High: 3, load.Normal: 1}}
}

// CallFor makes a call for a tenant. Tenants of one class take turns.
func CallFor(ctx context.Context, api *throttle.Throttle, tenant string, pays bool, call func(context.Context) error) error {
	o := throttle.CallOptions{Key: tenant, Priority: load.Normal}
	if pays {
		o.Priority = load.High
	}
	return api.Do(throttle.WithOptions(ctx, o), call)
}

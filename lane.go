package throttle

import "context"

type laneKey struct{}

// InLane is ctx for calls that wait in a lane of a Throttle, counting from 0,
// see [Throttle.Lanes]. Without it calls wait in lane 0, as they do where there
// is no such lane.
func InLane(ctx context.Context, lane int) context.Context {
	return context.WithValue(ctx, laneKey{}, lane)
}

func laneOf(ctx context.Context) int {
	lane, _ := ctx.Value(laneKey{}).(int)
	return lane
}

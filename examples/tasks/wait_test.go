package tasks

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle"
)

func TestComesBackAfterRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var api throttle.Throttle // made inside the bubble
		start, tries := time.Now(), 0
		err := api.Do(t.Context(), func(context.Context) error {
			if tries++; tries == 1 {
				return throttle.Throttled(errors.New("429"), 30*time.Minute)
			}
			return nil
		})
		if took := time.Since(start); err != nil || tries != 2 || took < 30*time.Minute {
			t.Errorf("%d tries in %v: %v; want 2 in 30m or more", tries, took, err)
		}
	})
}

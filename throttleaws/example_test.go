package throttleaws_test

import (
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/throttleaws"
)

func ExampleGates() {
	var gates throttleaws.Gates // one for all clients of an AWS account

	cfg := aws.Config{Region: "eu-west-1"} // or what config.LoadDefaultConfig gives
	cfg.APIOptions = append(cfg.APIOptions, gates.Add)
	// db := dynamodb.NewFromConfig(cfg)
}

func ExampleGates_settings() {
	gates := throttleaws.Gates{
		Throttles: &throttle.Group{New: func(name string) *throttle.Throttle {
			return &throttle.Throttle{
				Control: &pace.Adaptive{Probe: 20 * time.Second},
				Budget:  pace.AWSBudget,
				OnEvent: throttle.Log(slog.With("limit", name)),
			}
		}},
		Repeat: func(c throttleaws.Call) bool { return c.Operation != "UpdateItem" },
	}
	cfg := aws.Config{Region: "eu-west-1"}
	cfg.APIOptions = append(cfg.APIOptions, gates.Add)
}

// Units makes a table's calls wait by what they consume. The capacity of its
// writes is known here, all else is learnt.
func ExampleGates_units() {
	gates := throttleaws.Gates{
		Units: true,
		Throttles: &throttle.Group{New: func(string) *throttle.Throttle {
			return &throttle.Throttle{NewScope: func(scope string) pace.Controller {
				if scope == "orders write" {
					return &pace.Fixed{Rate: 200 * throttleaws.PerUnit}
				}
				return nil
			}}
		}},
	}
	cfg := aws.Config{Region: "eu-west-1"}
	cfg.APIOptions = append(cfg.APIOptions, gates.Add)
}

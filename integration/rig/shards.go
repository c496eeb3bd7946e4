package rig

import (
	"fmt"
	"os/exec"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// keepsShards reports whether a server writes into nodes.conf which shard a node is
// in, as all but Redis 7.0 do. One that reads nothing of it puts each node into a
// shard by itself.
func keepsShards(find func() (string, error)) (bool, error) {
	path, err := find()
	if err != nil {
		return false, err
	}
	said, err := exec.Command(path, "--version").Output()
	return !strings.Contains(string(said), " v=7.0."), err
}

// sharded is nil if a node has every slot in a shard with one master and one
// replica, both in service. That is what rueidis and valkey-go go by from version 8
// on, and is not what [Clustered.view] sees.
func sharded(n *Node) error {
	shards, err := redis.Values(n.Do("CLUSTER", "SHARDS"))
	if err != nil {
		return err
	}
	served := 0
	for _, s := range shards {
		shard := fields(s)
		online := make(map[string]int)
		members, _ := redis.Values(shard["nodes"], nil)
		for _, m := range members {
			if member := fields(m); text(member["health"]) == "online" {
				online[text(member["role"])]++
			}
		}
		if online["master"] != 1 || online["replica"] != nodes/masters-1 {
			return fmt.Errorf("%s has a shard with %d masters and %d replicas in service", n.Addr, online["master"], online["replica"])
		}
		ranges, _ := redis.Ints(shard["slots"], nil)
		for i := 1; i < len(ranges); i += 2 {
			served += ranges[i] - ranges[i-1] + 1
		}
	}
	if served != slots {
		return fmt.Errorf("%s has %d slots in shards, want %d", n.Addr, served, slots)
	}
	return nil
}

// fields is a map of Redis, which comes as names and values in turn.
func fields(reply any) map[string]any {
	all, _ := redis.Values(reply, nil)
	m := make(map[string]any, len(all)/2)
	for i := 1; i < len(all); i += 2 {
		m[text(all[i-1])] = all[i]
	}
	return m
}

func text(reply any) string {
	s, _ := redis.String(reply, nil)
	return s
}

package throttleaws

import "reflect"

// SizeOf is the size of an item.
func SizeOf(item any) int { return sizeOf(reflect.ValueOf(item)) }

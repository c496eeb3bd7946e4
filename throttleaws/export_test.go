package throttleaws

import "reflect"

// SizeOf is the size of an item.
func SizeOf(item any) int { return sizeOf(reflect.ValueOf(item)) }

// Remembered is of how many kinds of calls the costs are remembered.
func Remembered(g *Gates) int { return len(g.book.means) }

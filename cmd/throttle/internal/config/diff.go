package config

import (
	"reflect"
	"slices"
)

// hot are the fields that may change while the program runs.
var hot = []string{"gateway.routes", "log.level"}

// Cold returns the paths of what differs between two files and counts only after a
// restart of the program.
func Cold(a, b *File) (paths []string) {
	return cold(reflect.ValueOf(*a), reflect.ValueOf(*b), "", 0)
}

// cold compares the fields of two structs, and within those that are sections.
func cold(a, b reflect.Value, path string, depth int) (paths []string) {
	for _, f := range fieldsOf(a.Type()) {
		x, y := a.Field(f.index), b.Field(f.index)
		at := join(path, f.name)
		switch {
		case slices.Contains(hot, at), reflect.DeepEqual(x.Interface(), y.Interface()):
		case depth == 0 && f.typ.Kind() == reflect.Pointer:
			paths = append(paths, cold(whole(x), whole(y), at, depth+1)...)
		default:
			paths = append(paths, at)
		}
	}
	return paths
}

// whole is a section, empty if it is absent.
func whole(v reflect.Value) reflect.Value {
	if v.IsNil() {
		return reflect.Zero(v.Type().Elem())
	}
	return v.Elem()
}

package throttlepage_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/throttlehttp"
	"github.com/throttle-go/throttle/throttlepage"
)

// Mount the page below a prefix, behind the authentication of the program.
func Example() {
	api := &throttle.Throttle{Control: &pace.Fixed{Rate: 4}}
	transport := new(throttlehttp.Transport)
	page := &throttlepage.Page{
		Throttles: map[string]*throttle.Throttle{"Amazon EMR": api},
		Groups:    map[string]*throttle.Group{"web": transport.Group()},
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/throttle/", onlyAdmins(http.StripPrefix("/debug/throttle", page)))

	_ = api.Do(context.Background(), func(context.Context) error { return nil })
	for _, password := range []string{"wrong", "right"} {
		r := httptest.NewRequest("GET", "/debug/throttle/", nil)
		r.SetBasicAuth("admin", password)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Println(w.Code, strings.Contains(w.Body.String(), "Amazon EMR"), strings.Contains(w.Body.String(), "The program has set it."))
	}
	// Output:
	// 401 false false
	// 200 true true
}

// onlyAdmins stands for the authentication of the program.
func onlyAdmins(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != "right" {
			w.Header().Set("WWW-Authenticate", "Basic")
			http.Error(w, "sign in", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

package admin

import (
	"crypto/rand"
	"crypto/sha256"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// maxSessions bounds the browsers that are signed in by one token; the one that
	// signed in first is signed out for one more.
	maxSessions = 32
	// sessionLife is how long one stays signed in.
	sessionLife = 12 * time.Hour
)

// A session is a browser that showed a token. Its secret is not kept.
type session struct {
	sum   [sha256.Size]byte // of the secret in the cookie
	who   caller
	until time.Time
}

// sessions are those of this process, the oldest first, at most maxSessions for each
// token. The zero value is ready.
type sessions struct {
	mu  sync.Mutex
	all []session
}

// begin signs in, and returns the secret of the session.
func (s *sessions) begin(who caller, now time.Time) string {
	secret := rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	first, n := 0, 0
	for i := len(s.all) - 1; i >= 0; i-- {
		if s.all[i].who.name == who.name {
			first, n = i, n+1
		}
	}
	if n >= maxSessions {
		s.all = slices.Delete(s.all, first, first+1)
	}
	s.all = append(s.all, session{sha256.Sum256([]byte(secret)), who, now.Add(sessionLife)})
	return secret
}

// of returns who has a secret, anyone if none does. Digests are compared, so that
// the time tells nothing of the secrets.
func (s *sessions) of(secret string, now time.Time) caller {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.find(secret); i >= 0 && now.Before(s.all[i].until) {
		return s.all[i].who
	}
	return caller{}
}

// end signs out.
func (s *sessions) end(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.find(secret); i >= 0 {
		s.all = slices.Delete(s.all, i, i+1)
	}
}

func (s *sessions) find(secret string) int {
	sum := sha256.Sum256([]byte(secret))
	for i := range s.all {
		if s.all[i].sum == sum {
			return i
		}
	}
	return -1
}

// cookieName names the cookie of a listener: browsers send those of all ports of a
// host to each.
func cookieName(at net.Addr, secure bool) string {
	_, port, _ := net.SplitHostPort(at.String())
	if secure {
		return "__Host-throttle-" + port
	}
	return "throttle-" + port
}

// signIn is POST /signin: a session for a token.
func (s *server) signIn(w http.ResponseWriter, r *http.Request) {
	to := pathOnly(r.PostFormValue("to"))
	who := s.access.known(strings.TrimSpace(r.PostFormValue("token")))
	if who.role == anyone {
		s.turnedAway(r, who, failf(http.StatusUnauthorized, "no token has this secret"))
		s.page.SignIn(w, to, true)
		return
	}
	s.endSession(r) // the new cookie takes its place
	secret := s.access.sessions.begin(who, time.Now())
	http.SetCookie(w, s.access.cookieOf(secret, int(sessionLife/time.Second)))
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// signOut is POST /signout.
func (s *server) signOut(w http.ResponseWriter, r *http.Request) {
	s.endSession(r)
	http.SetCookie(w, s.access.cookieOf("", -1))
	http.Redirect(w, r, "/signin", http.StatusSeeOther)
}

// endSession ends the session that r has a cookie of.
func (s *server) endSession(r *http.Request) {
	if c, err := r.Cookie(s.access.cookie); err == nil {
		s.access.sessions.end(c.Value)
	}
}

// cookieOf is the cookie of a session, which scripts cannot read.
func (a *access) cookieOf(secret string, age int) *http.Cookie {
	return &http.Cookie{
		Name: a.cookie, Value: secret, Path: "/", MaxAge: age,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: a.secure,
	}
}

// pathOnly is a path of this listener, "/" for all else.
func pathOnly(to string) string {
	if !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.ContainsAny(to, "\\\r\n\t") {
		return "/"
	}
	return to
}

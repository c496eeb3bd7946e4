#!/usr/bin/env bash
# Installs what the tests need beyond Go and make, where that is missing: a C
# compiler for the race detector, and Chromium, in which the HTML report is
# opened. It fails never: what it cannot install, it names, and the tests that
# need it fail.
set -euo pipefail

have() { command -v "$1" >/dev/null 2>&1; }

missing=()
if ! have "${CC:-cc}" && ! have gcc && ! have clang; then
	missing+=(gcc libc6-dev)
fi
if ! have "${CHROMIUM:-chromium}" && ! have chromium && ! have chromium-browser && ! have google-chrome; then
	missing+=(chromium)
fi
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo -n)
install() {
	have apt-get || return 1
	[ ${#as_root[@]} -eq 0 ] || { have sudo && sudo -n true 2>/dev/null; } || return 1
	echo "need: installing ${missing[*]} with apt-get" >&2
	"${as_root[@]}" apt-get update -qq >&2 || return 1
	"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
		apt-get install -qq -y --no-install-recommends "${missing[@]}" </dev/null >/dev/null
}

if ! install; then
	cat >&2 <<-END

		************************************************************************
		  MISSING, and could not be installed from here: ${missing[*]}
		  On Debian or Ubuntu:   sudo apt-get install ${missing[*]}
		  Elsewhere: a C compiler as cc, gcc or clang; Chromium or Chrome as
		  chromium, chromium-browser or google-chrome, or its path in \$CHROMIUM.
		  Tests that need them will FAIL.
		************************************************************************

	END
fi

#!/usr/bin/env bash
# Installs what the tests need beyond Go and make, where that is missing: a C
# compiler for the race detector, Chromium, in which the HTML report is opened,
# and dynalite, a DynamoDB API, in .bin/dynalite, for which Node.js is needed.
# It fails never: what it cannot install, it names, and the tests that need it
# fail.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

have() { command -v "$1" >/dev/null 2>&1; }

missing=()
if ! have "${CC:-cc}" && ! have gcc && ! have clang; then
	missing+=(gcc libc6-dev)
fi
if ! have "${CHROMIUM:-chromium}" && ! have chromium && ! have chromium-browser && ! have google-chrome; then
	missing+=(chromium)
fi
if ! have npm && [ -z "${DYNALITE:-}" ] && ! have dynalite; then
	missing+=(nodejs npm)
fi

as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo -n)
install() {
	[ ${#missing[@]} -gt 0 ] || return 0
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
		  chromium, chromium-browser or google-chrome, or its path in \$CHROMIUM;
		  Node.js 20 or later with npm.
		  Tests that need them will FAIL.
		************************************************************************

	END
fi

# dynalite, in the versions of package-lock.json; again when those change.
install_dynalite() {
	local to=.bin/dynalite
	[ -z "${DYNALITE:-}" ] || return 0
	[ -x $to/node_modules/.bin/dynalite ] && cmp -s scripts/dynalite/package-lock.json $to/package-lock.json && return 0
	have npm || return 1
	echo "need: installing dynalite with npm in $to" >&2
	mkdir -p $to
	rm -f $to/package-lock.json
	cp scripts/dynalite/package.json $to
	cp scripts/dynalite/package-lock.json $to/npm-shrinkwrap.json
	npm ci --prefix $to --ignore-scripts --no-audit --no-fund </dev/null >/dev/null || return 1
	cp scripts/dynalite/package-lock.json $to # the last, as it says that all is there
}

if ! install_dynalite && ! have dynalite; then
	cat >&2 <<-END

		************************************************************************
		  MISSING, and could not be installed from here: dynalite
		  With Node.js 20 or later:   npm install -g dynalite
		  or set \$DYNALITE to its path. Tests that need it will FAIL.
		************************************************************************

	END
fi

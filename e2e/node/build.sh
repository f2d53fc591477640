# Compiles what the node runs, each part again only when its sources have changed. About 10 minutes of two cores from nothing.
mkdir -p "$bin" "$images"

[ "$(id -u)" = 0 ] || fail "a node needs root" "run as root, or set KUBECONFIG to use another cluster"
# installed PROGRAM..: all of them. `command -v` alone is content with one.
installed() {
  local program
  for program in "$@"; do command -v "$program" >/dev/null || return 1; done
}
installed go gcc || fail "go and gcc are needed to compile the node" "apt-get install gcc, and Go 1.21 or newer: https://go.dev/dl"
if ! installed containerd runc nft conntrack ip openssl || [ ! -d /usr/lib/cni ]; then
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends containerd runc containernetworking-plugins nftables conntrack iproute2 openssl >/dev/null
fi

# once PART SOURCE..: succeeds, and so asks for PART to be made, unless it was made of the same sources.
once() {
  local part=$1 sum
  shift
  sum=$(find "$@" -type f -print0 | sort -z | xargs -0 sha256sum | sed "s#$here/##" | sha256sum)
  [ "$sum" = "$(cat "$cache/$part.sum" 2>/dev/null)" ] && return 1
  echo "compiling $part" >&2
  made="$cache/$part.sum"
  made_of=$sum
}
made() { echo "$made_of" >"$made"; }

# A Go that is too old for a part gets one that is not, wherever it may: distributions often say that it may not.
export GOTOOLCHAIN=auto
go_build() { CGO_ENABLED=0 go build -trimpath "$@"; }

if once archive "$here/archive"; then
  (cd "$here/archive" && go_build -ldflags="-s -w" -o "$bin/archive" .)
  made
fi

if once kubenode "$here/kubenode"; then
  # Kubernetes reads its own version from these variables.
  version=$(sed -n 's/^require k8s.io\/kubernetes v//p' "$here/kubenode/go.mod")
  of=k8s.io/component-base/version
  numbers="-X $of.gitVersion=v$version -X $of.gitMajor=${version%%.*} -X $of.gitMinor=$(cut -d. -f2 <<<"$version")"
  (cd "$here/kubenode" && go_build -ldflags="-s -w $numbers" -o "$bin/kubenode" .)
  made
fi

if once pause "$here/node/pause.c"; then
  gcc -static -Os -o "$bin/pause" "$here/node/pause.c"
  "$bin/archive" localhost/pause:1 "$images/pause.tar" /pause "$bin/pause=/pause"
  made
fi

if once coredns "$here/coredns"; then
  (cd "$here/coredns" && go_build -ldflags="-s -w" -o "$bin/coredns" .)
  "$bin/archive" localhost/coredns:1 "$images/coredns.tar" /coredns "$bin/coredns=/coredns"
  made
fi

# The conformance suite's echo server, of its published sources, under the names that the suite's manifests ask for: tests use
# it as their backend too. v0.2.0 is asked for by one Deployment; its sources are not published as a module.
if once echo "$here/node/build.sh"; then
  module=sigs.k8s.io/gateway-api-conformance-images@v0.1.0
  # What went wrong is part of the answer.
  answer=$(cd / && go mod download -json "$module") || fail "go could not download $module: $answer" "is the module proxy reachable?"
  source=$(sed -n 's/^\t"Dir": "\(.*\)",/\1/p' <<<"$answer")
  folder=$(mktemp -d)
  cp -r "$source/." "$folder" && chmod -R u+w "$folder" # the module cache is read-only
  (cd "$folder" && go_build -ldflags="-s -w" -o "$bin/echo-basic" ./echo-basic)
  rm -rf "$folder"
  for tag in v0.1.0 v0.2.0; do
    "$bin/archive" "registry.k8s.io/gateway-api/conformance/echo-basic:$tag" "$images/echo-$tag.tar" /echo-basic "$bin/echo-basic=/echo-basic"
  done
  made
fi

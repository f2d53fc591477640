# Makes the keys of one node: an authority, a certificate for each component, a kubeconfig for each client.
pki=$state/pki
mkdir -p "$pki"
cd "$pki"

# ssl ARGUMENT..: openssl, which says on standard error what it does even when it does it.
ssl() {
  local said
  said=$(openssl "$@" 2>&1) || fail "openssl $1: $said" "is $pki yours to write, and not full?"
}

ssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -subj "/CN=$name-ca" -days 3650
ssl genrsa -out sa.key 2048
ssl rsa -in sa.key -pubout -out sa.pub

# sign NAME SUBJECT [ALTERNATIVE_NAMES]
sign() {
  ssl req -newkey rsa:2048 -nodes -keyout "$1.key" -out "$1.csr" -subj "$2"
  echo "extendedKeyUsage=serverAuth,clientAuth" >"$1.ext"
  [ -z "${3:-}" ] || echo "subjectAltName=$3" >>"$1.ext"
  ssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 3650 -out "$1.crt" -extfile "$1.ext"
}

# kubeconfig NAME: for the client of that certificate
kubeconfig() {
  cat >"$1.kubeconfig" <<Y
apiVersion: v1
kind: Config
clusters: [{name: node, cluster: {server: "https://172.30.0.2:6443", certificate-authority: $pki/ca.crt}}]
users: [{name: $1, user: {client-certificate: $pki/$1.crt, client-key: $pki/$1.key}}]
contexts: [{name: node, context: {cluster: node, user: $1}}]
current-context: node
Y
}

service=kubernetes.default
sign apiserver /CN=kube-apiserver \
  "DNS:kubernetes,DNS:$service,DNS:$service.svc,DNS:$service.svc.cluster.local,DNS:localhost,IP:10.96.0.1,IP:172.30.0.2,IP:127.0.0.1"
sign kubelet "/O=system:nodes/CN=system:node:$name" "DNS:$name,IP:172.30.0.2"
sign admin /O=system:masters/CN=admin
sign controller-manager /CN=system:kube-controller-manager
sign scheduler /CN=system:kube-scheduler
sign proxy /CN=system:kube-proxy
for client in kubelet admin controller-manager scheduler proxy; do kubeconfig $client; done

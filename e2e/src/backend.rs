//! What routes lead to: a server that answers with the request as it came, and with where it runs.

/// A Service of this name and port, with so many pods behind it, as YAML that goes on a stream of documents.
pub fn echo(name: &str, port: u16, replicas: u32) -> String {
    format!(
        r#"
---
apiVersion: v1
kind: Service
metadata: {{ name: {name} }}
spec:
  selector: {{ app: {name} }}
  ports: [{{ port: {port}, targetPort: 3000 }}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {{ name: {name} }}
spec:
  replicas: {replicas}
  selector: {{ matchLabels: {{ app: {name} }} }}
  template:
    metadata: {{ labels: {{ app: {name} }} }}
    spec:
      automountServiceAccountToken: false
      securityContext: {{ runAsNonRoot: true, runAsUser: 65532, seccompProfile: {{ type: RuntimeDefault }} }}
      containers:
        - name: echo
          image: registry.k8s.io/gateway-api/conformance/echo-basic:v0.1.0
          imagePullPolicy: IfNotPresent
          env:
            - {{ name: NAMESPACE, valueFrom: {{ fieldRef: {{ fieldPath: metadata.namespace }} }} }}
            - {{ name: POD_NAME, valueFrom: {{ fieldRef: {{ fieldPath: metadata.name }} }} }}
          readinessProbe: {{ httpGet: {{ path: /health, port: 3000 }}, periodSeconds: 1 }}
          securityContext: {{ allowPrivilegeEscalation: false, capabilities: {{ drop: [ALL] }} }}
"#
    )
}

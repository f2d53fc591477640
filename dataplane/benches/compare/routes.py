#!/usr/bin/env python3
"""Prints a manifest with many routes: routes.py COUNT. A Service with an endpoint for every ten, a hostname for every five."""

import sys

GATEWAY = """apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: bench, namespace: bench }
spec:
  gatewayClassName: postern
  listeners:
  - { name: plain, port: 80, protocol: HTTP }
"""
SERVICE = """---
apiVersion: v1
kind: Service
metadata: {{ name: web-{0}, namespace: bench }}
spec:
  ports:
  - {{ name: http, port: 80 }}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{ name: web-{0}, namespace: bench, labels: {{ kubernetes.io/service-name: web-{0} }} }}
addressType: IPv4
ports:
- {{ name: http, port: 8080 }}
endpoints:
- addresses: [10.{1}.{2}.1]
  conditions: {{ ready: true }}
- addresses: [10.{1}.{2}.2]
  conditions: {{ ready: true }}
"""
ROUTE = """---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{ name: route-{0}, namespace: bench, creationTimestamp: "2026-01-01T00:00:00Z" }}
spec:
  parentRefs:
  - name: bench
  hostnames: [host-{1}.example.com]
  rules:
  - matches:
    - path: {{ type: PathPrefix, value: /app-{0} }}
      headers:
      - {{ name: x-version, value: v2 }}
    backendRefs:
    - {{ name: web-{2}, port: 80 }}
  - matches:
    - path: {{ type: PathPrefix, value: /app-{0} }}
    filters:
    - type: RequestHeaderModifier
      requestHeaderModifier:
        set:
        - {{ name: x-route, value: route-{0} }}
    backendRefs:
    - {{ name: web-{2}, port: 80, weight: 9 }}
    - {{ name: web-{3}, port: 80, weight: 1 }}
"""

count = int(sys.argv[1])
services = max(count // 10, 1)
print(GATEWAY, end="")
for index in range(services):
    print(SERVICE.format(index, index // 250, index % 250), end="")
for index in range(count):
    print(ROUTE.format(index, index // 5, index % services, (index + 1) % services), end="")

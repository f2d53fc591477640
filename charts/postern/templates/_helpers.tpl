{{- define "postern.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* The release's name where that says it all. 40 characters leave room for what is appended. */}}
{{- define "postern.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "postern.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "postern.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Cluster-wide names carry the namespace, so that two releases of one name do not meet. */}}
{{- define "postern.clusterName" -}}
{{- if eq (include "postern.fullname" .) .Release.Namespace -}}
{{- include "postern.fullname" . -}}
{{- else -}}
{{- printf "%s:%s" .Release.Namespace (include "postern.fullname" .) -}}
{{- end -}}
{{- end -}}

{{- define "postern.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (ternary (include "postern.fullname" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{- define "postern.image" -}}
{{- $name := list .Values.image.registry .Values.image.repository | compact | join "/" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $name .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* These never change: a Deployment's selector cannot. */}}
{{- define "postern.selectorLabels" -}}
app.kubernetes.io/name: {{ include "postern.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{- define "postern.labels" -}}
{{ include "postern.selectorLabels" . }}
app.kubernetes.io/part-of: postern
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "postern.subject" -}}
- kind: ServiceAccount
  name: {{ include "postern.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}

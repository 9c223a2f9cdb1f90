{{/* Prefix of all names: the release, and the chart unless the release says it. */}}
{{- define "stretto.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name }}{{ end -}}
{{- end }}

{{/* What tells the pods of a component of this release: dict root, component. */}}
{{- define "stretto.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* Labels of an object: dict root, component. */}}
{{- define "stretto.labels" -}}
{{ include "stretto.selector" . }}
app.kubernetes.io/part-of: stretto
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end }}

{{/* metadata of an object: dict root, component, name. */}}
{{- define "stretto.metadata" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "stretto.labels" . | nindent 2 }}
{{- end }}

{{/* dict root, own (overrides of .Values.image). */}}
{{- define "stretto.image" -}}
{{- $image := .root.Values.image -}}
{{ .own.repository | default $image.repository }}:{{ .own.tag | default $image.tag | default .root.Chart.AppVersion }}
{{- end }}

{{/* The coordinator's host name, as workers and users call it. */}}
{{- define "stretto.coordinatorHost" -}}
{{ include "stretto.name" . }}-coordinator.{{ .Release.Namespace }}.svc
{{- end }}

{{/* The addresses of all coordinators, as workers call them: one leads, the others say which. */}}
{{- define "stretto.coordinators" -}}
{{- if .Values.coordinator.etcd.endpoints -}}
{{- range $i := until (int .Values.coordinator.replicas) -}}
{{ if $i }},{{ end }}{{ include "stretto.name" $ }}-coordinator-{{ $i }}.{{ include "stretto.coordinatorHost" $ }}:7070
{{- end -}}
{{- else -}}
{{ include "stretto.coordinatorHost" . }}:7070
{{- end -}}
{{- end }}

{{/* Name of the Service of a coordinator's page: dict root, index of its pod. */}}
{{- define "stretto.pageService" -}}
{{ include "stretto.name" .root }}-page-{{ .index }}
{{- end }}

{{/* What every pod is: dict root, component. Passes Restricted pod security. */}}
{{- define "stretto.podSecurity" -}}
serviceAccountName: {{ include "stretto.name" .root }}-{{ .component }}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: {{ .root.Values.user.uid }}
  runAsGroup: {{ .root.Values.user.gid }}
  fsGroup: {{ .root.Values.user.gid }}
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "stretto.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* Where the scheduler may put a pod: the values of coordinator or pool. */}}
{{- define "stretto.scheduling" -}}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The image asks for all GPUs of its node; where the device plug-in gives none, it gets none. */}}
{{- define "stretto.noGpus" -}}
- {name: NVIDIA_VISIBLE_DEVICES, value: void}
{{- end }}

{{/* requests and limits: dict resources, more (further lines of both, or ""). */}}
{{- define "stretto.resources" -}}
resources:
  {{- range list "requests" "limits" }}
  {{ . }}:
    cpu: {{ $.resources.cpu | quote }}
    memory: {{ $.resources.memory }}
    ephemeral-storage: {{ $.resources.ephemeralStorage }}
    {{- range $name, $count := $.more }}
    {{ $name }}: {{ $count | quote }}
    {{- end }}
  {{- end }}
{{- end }}

{{/* Neither asks about a step of training: the daemon answers while its trainers compute or wait for each other.
     dict readiness, the path of that probe. */}}
{{- define "stretto.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: {{ .readiness }}, port: metrics}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 3
{{- end }}

{{/* Who a daemon is to its peers (files, because they are read again when they change), and which doors stay without TLS:
     NetworkPolicies guard those. dict root, component. */}}
{{- define "stretto.securityFlags" -}}
{{- if eq .root.Values.tls.mode "insecure" -}}
- --insecure-listen-beyond-loopback
{{- else -}}
- --tls-ca=/etc/stretto/tls/ca.crt
- --tls-certificate=/etc/stretto/tls/tls.crt
- --tls-key=/etc/stretto/tls/tls.key
- --insecure-metrics-beyond-loopback
{{- if eq .component "worker" }}
- --insecure-tensors-beyond-loopback
{{- end }}
{{- end }}
{{- end }}

{{- define "stretto.tlsMount" -}}
{{- if ne .Values.tls.mode "insecure" -}}
- {name: tls, mountPath: /etc/stretto/tls, readOnly: true}
{{- end }}
{{- end }}

{{/* How a coordinator reaches etcd, and the others reach it. */}}
{{- define "stretto.etcdFlags" -}}
{{- with .Values.coordinator.etcd -}}
- --etcd-endpoints={{ join "," .endpoints }}
- --etcd-prefix={{ .prefix }}
- --etcd-ca=/etc/stretto/etcd/ca.crt
- --etcd-certificate=/etc/stretto/etcd/tls.crt
- --etcd-key=/etc/stretto/etcd/tls.key
- --advertise=$(POD_NAME).{{ include "stretto.coordinatorHost" $ }}:7070
{{- end }}
{{- end }}

{{/* dict root, component. */}}
{{- define "stretto.tlsVolume" -}}
{{- if ne .root.Values.tls.mode "insecure" -}}
- name: tls
  secret:
    secretName: {{ get .root.Values.tls.secrets .component }}
    # 0440: the key is for the pod's group, fsGroup, and for nobody else.
    defaultMode: 288
{{- end }}
{{- end }}

{{/* The claim of a shared volume: dict root, volume. */}}
{{- define "stretto.claim" -}}
{{- $volume := get .root.Values.storage .volume -}}
{{ $volume.existingClaim | default (printf "%s-%s" (include "stretto.name" .root) .volume) }}
{{- end }}

{{/* spec of a claim: the values of its volume. */}}
{{- define "stretto.claimSpec" -}}
accessModes: [{{ .accessMode }}]
{{- with .storageClassName }}
storageClassName: {{ . }}
{{- end }}
resources:
  requests: {storage: {{ .size }}}
{{- end }}

{{/* All pools as a map, each over the defaults; a pool's key replaces a default whole. */}}
{{- define "stretto.pools" -}}
{{- $pools := dict }}
{{- range $name, $own := .Values.pools }}
{{- if $own }}
{{- $pool := deepCopy $.Values.worker }}
{{- range $key, $value := $own }}{{ $_ := set $pool $key $value }}{{ end }}
{{- $_ := set $pools $name $pool }}
{{- end }}
{{- end }}
{{- toYaml $pools }}
{{- end }}

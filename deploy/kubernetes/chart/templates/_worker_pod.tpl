{{/* spec of a worker's pod: dict root, component, pool. */}}
{{- define "stretto.workerPod" -}}
{{- $root := .root }}
{{- $pool := .pool }}
{{- include "stretto.podSecurity" . }}
{{- include "stretto.scheduling" $pool }}
{{- with $pool.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- if $pool.hostNetwork }}
hostNetwork: true
dnsPolicy: ClusterFirstWithHostNet
{{- end }}
# SIGTERM asks the trainers for a checkpoint. --stop-grace, 5 s to reap and 2 s for last reports must fit.
terminationGracePeriodSeconds: {{ add $pool.stopGraceSeconds 15 }}
containers:
  - name: worker
    image: {{ include "stretto.image" (dict "root" $root "own" $pool.image) }}
    imagePullPolicy: {{ $root.Values.image.pullPolicy }}
    command: [stretto-worker]
    args:
      - --coordinator={{ include "stretto.coordinators" $root }}
      - --state-dir=/var/lib/stretto/worker
      - --host=$(WORKER_HOST)
      - --slots=$(WORKER_SLOTS)
      {{- if not $pool.gpus }}
      - --nvml
      - ""
      {{- end }}
      - --interface=$(POD_IP)
      - --metrics-listen=$(POD_IP):9091
      - --data-root=/data
      - --checkpoint-root=/checkpoints
      - --stop-grace={{ $pool.stopGraceSeconds }}
      {{- include "stretto.securityFlags" . | nindent 6 }}
    env:
      - name: POD_IP
        valueFrom: {fieldRef: {fieldPath: status.podIP}}
      # The worker's name is made of it, so it stays the same when the pod is made again.
      - name: WORKER_HOST
        valueFrom: {fieldRef: {fieldPath: {{ if eq $pool.kind "DaemonSet" }}spec.nodeName{{ else }}metadata.name{{ end }}}}
      - name: WORKER_SLOTS
        valueFrom: {resourceFieldRef: {containerName: worker, resource: limits.cpu, divisor: "1"}}
      - {name: HOME, value: /var/lib/stretto}
      {{- if not $pool.gpus }}
      {{- include "stretto.noGpus" . | nindent 6 }}
      {{- end }}
      {{- with $pool.env }}{{ toYaml . | nindent 6 }}{{ end }}
    ports:
      - {name: metrics, containerPort: 9091}
    {{- include "stretto.probes" (dict "readiness" "/readyz") | nindent 4 }}
    {{- $devices := deepCopy $pool.extraResources }}
    {{- if $pool.gpus }}{{ $_ := set $devices "nvidia.com/gpu" $pool.gpus }}{{ end }}
    {{- include "stretto.resources" (dict "resources" $pool.resources "more" $devices) | nindent 4 }}
    {{- include "stretto.containerSecurity" . | nindent 4 }}
    volumeMounts:
      - {name: state, mountPath: /var/lib/stretto}
      - {name: tmp, mountPath: /tmp}
      - {name: shm, mountPath: /dev/shm}
      - {name: data, mountPath: /data, readOnly: true}
      - {name: checkpoints, mountPath: /checkpoints}
      {{- with include "stretto.tlsMount" $root }}{{ . | nindent 6 }}{{ end }}
volumes:
  - {name: state, emptyDir: {sizeLimit: {{ $pool.resources.ephemeralStorage }}}}
  - {name: tmp, emptyDir: {sizeLimit: 1Gi}}
  # The container's own /dev/shm has 64 MiB; NCCL wants more.
  - {name: shm, emptyDir: {medium: Memory, sizeLimit: {{ $pool.sharedMemory }}}}
  - name: data
    persistentVolumeClaim: {claimName: {{ include "stretto.claim" (dict "root" $root "volume" "data") }}, readOnly: true}
  - name: checkpoints
    persistentVolumeClaim: {claimName: {{ include "stretto.claim" (dict "root" $root "volume" "checkpoints") }}}
  {{- with include "stretto.tlsVolume" . }}{{ . | nindent 2 }}{{ end }}
{{- end }}

{{/* The name of the release, with `facescan` in it. */}}
{{- define "facescan.name" -}}
{{- if contains "facescan" .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-facescan" .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The labels of every object. */}}
{{- define "facescan.labels" -}}
app.kubernetes.io/name: facescan
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "facescan.image" -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}

{{/* One variable from the Secret: the context, the variable, the key. */}}
{{- define "facescan.secret" -}}
{{- $context := index . 0 -}}
- name: {{ index . 1 }}
  valueFrom:
    secretKeyRef:
      name: {{ $context.Values.secret.name }}
      key: {{ index . 2 }}
{{- end -}}

{{/* The certificate of the authority of Postgres: the context, and what is wanted of it. */}}
{{- define "facescan.authority" -}}
{{- with (index . 0).Values.database.certificateAuthority -}}
{{- if eq (index $ 1) "env" -}}
- name: PGSSLROOTCERT
  value: /etc/facescan/ca.crt
{{- else if eq (index $ 1) "mount" -}}
- name: authority
  mountPath: /etc/facescan
  readOnly: true
{{- else -}}
- name: authority
  configMap:
    name: {{ . }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What servers and workers have in common in their pods. */}}
{{- define "facescan.pod" -}}
# Longer than server.shutdown_timeout_ms, so that the requests in flight are answered.
terminationGracePeriodSeconds: 40
# Pods ask nothing of the cluster.
automountServiceAccountToken: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  {{- if .Values.persistence.enabled }}
  # A new volume belongs to root. This gives it to the group of the image.
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  {{- end }}
  seccompProfile:
    type: RuntimeDefault
volumes:
  - name: data
    {{- if .Values.persistence.enabled }}
    persistentVolumeClaim:
      claimName: {{ .Values.persistence.existingClaim | default (printf "%s-data" (include "facescan.name" .)) }}
    {{- else }}
    emptyDir: {}
    {{- end }}
  - name: tmp
    emptyDir: {}
  {{- with include "facescan.authority" (list . "volume") }}
  {{- . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* What servers and workers have in common in their container, apart from the variables. */}}
{{- define "facescan.container" -}}
image: {{ include "facescan.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
envFrom:
  - configMapRef:
      name: {{ include "facescan.name" . }}
livenessProbe:
  httpGet:
    path: /livez
    port: http
  periodSeconds: 10
  failureThreshold: 6
readinessProbe:
  httpGet:
    path: /readyz
    port: http
  periodSeconds: 5
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
volumeMounts:
  - name: data
    mountPath: /var/lib/facescan
  - name: tmp
    mountPath: /tmp
  {{- with include "facescan.authority" (list . "mount") }}
  {{- . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* The variables of servers and workers that come from the Secret. */}}
{{- define "facescan.env" -}}
{{ include "facescan.secret" (list . "DATABASE_URL" "database-url") }}
{{- if .Values.secret.storeCredentials }}
{{ include "facescan.secret" (list . "AWS_ACCESS_KEY_ID" "aws-access-key-id") }}
{{ include "facescan.secret" (list . "AWS_SECRET_ACCESS_KEY" "aws-secret-access-key") }}
{{- end }}
{{- if .Values.nats.enabled }}
{{ include "facescan.secret" (list . "FACESCAN__BATCHES__QUEUE_TOKEN" "nats-token") }}
{{- end }}
{{- with include "facescan.authority" (list . "env") }}
{{ . }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Where pods are placed: the values of one workload. */}}
{{- define "facescan.placement" -}}
{{- $placement := dict -}}
{{- range $key := list "nodeSelector" "tolerations" "affinity" -}}
{{- with index $ $key }}{{ $_ := set $placement $key . }}{{ end -}}
{{- end -}}
{{- if $placement }}{{ toYaml $placement }}{{ end -}}
{{- end -}}

{{/* A scaler by the load of the processors: the name of the Deployment, min, max, percent. */}}
{{- define "facescan.hpa" -}}
scaleTargetRef:
  apiVersion: apps/v1
  kind: Deployment
  name: {{ index . 0 }}
minReplicas: {{ index . 1 }}
maxReplicas: {{ index . 2 }}
metrics:
  - type: Resource
    resource:
      name: cpu
      target:
        type: Utilization
        averageUtilization: {{ index . 3 }}
{{- end -}}

import { useEffect } from 'preact/hooks'
import type { CameraType } from '../../../../src/media/live/camera-source.ts'
import { may } from '../../server-status/status.ts'
import { CheckField, LineField, SelectField } from '../../widgets/fields/field.tsx'
import { faultAt } from '../draft.ts'
import { changeSource, configuredCameras, isSecure, listCameras, type SourceDraft, source } from './camera-draft.ts'

const DESCRIBED: Readonly<Record<CameraType, string>> = {
  rtsp: 'RTSP address',
  mjpeg: 'MJPEG address',
  jpeg: 'JPEG address',
  hls: 'HLS address',
}
const EXAMPLES: Readonly<Record<CameraType, string>> = {
  rtsp: 'rtsp://10.0.0.7/stream',
  mjpeg: 'http://10.0.0.7/video.mjpg',
  jpeg: 'http://10.0.0.7/picture.jpg',
  hls: 'https://10.0.0.7/live/index.m3u8',
}
const TYPES = Object.keys(DESCRIBED) as CameraType[]

/** Where the frames of the new watch come from; nothing where there is no choice. */
export function SourceFields() {
  const mayDescribe = may('admin') === true
  const { type, camera } = source.value
  useEffect(() => void listCameras(), [])
  // A draft from before may have what the server no longer offers: it says so.
  const names = new Set([...configuredCameras.value, ...(type === 'camera' ? [camera] : [])])
  const options = [
    { value: 'push', label: 'This computer: its camera, or a video' },
    ...[...names].map((name) => ({ value: `camera ${name}`, label: `Camera ${name}` })),
    ...TYPES.filter((one) => mayDescribe || one === type).map((one) => ({ value: one, label: DESCRIBED[one] })),
  ]
  if (options.length === 1) return null
  return (
    <div class="watch-source-fields">
      <SelectField
        label="Frames come from"
        value={type === 'camera' ? `camera ${camera}` : type}
        options={options}
        fault={faultAt('source.camera') ?? faultAt('source.type')}
        onChange={(value) => {
          const [type, ...name] = value.split(' ') as [SourceDraft['type'], ...string[]]
          changeSource({ type, camera: name.join(' ') })
        }}
      />
      {type !== 'push' && type !== 'camera' && <AddressFields type={type} />}
      {type !== 'push' && (
        <CheckField
          label="Keep a video of each event, from 5 seconds before it starts"
          checked={source.value.records}
          onChange={(records) => changeSource({ records })}
        />
      )}
    </div>
  )
}

function AddressFields({ type }: { readonly type: CameraType }) {
  const { url, username, password, certificate } = source.value
  return (
    <>
      <LineField
        label={DESCRIBED[type]}
        value={url}
        placeholder={EXAMPLES[type]}
        fault={faultAt('source.url')}
        onInput={(value) => changeSource({ url: value })}
      />
      {isSecure(source.value) && (
        <LineField
          label="Certificate (optional)"
          value={certificate}
          placeholder="verify, any or sha256:FINGERPRINT"
          fault={faultAt('source.certificate')}
          onInput={(value) => changeSource({ certificate: value })}
        />
      )}
      <div class="field-row">
        <LineField
          label="User name (optional)"
          value={username}
          fault={faultAt('source.username')}
          onInput={(value) => changeSource({ username: value })}
        />
        <LineField
          label="Password (optional)"
          isSecret
          value={password}
          fault={faultAt('source.password')}
          onInput={(value) => changeSource({ password: value })}
        />
      </div>
    </>
  )
}

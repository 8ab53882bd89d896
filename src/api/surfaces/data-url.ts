import type { MediaUrl } from '../../conversation/request/message.ts'

/** Converts base64 to a data URL. Large data is already decoded, and some clients send a data URL. */
export function dataUrl(data: MediaUrl, type = ''): MediaUrl {
  return typeof data === 'string' && !/^\s*data:/i.test(data) ? `data:${type};base64,${data}` : data
}

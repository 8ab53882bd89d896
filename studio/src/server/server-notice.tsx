import { useSignalEffect } from '@preact/signals'
import { Notice } from '../widgets/notices/notice.tsx'
import { models } from './connection.ts'
import { loadModels } from './load-models.ts'
import { serverState } from './server-watch.ts'

/** Says that the server is away, and when it is back. */
export function ServerNotice() {
  useSignalEffect(() => {
    // It may serve others now.
    if (serverState.value === 'back' && models.peek().length > 0) void loadModels()
  })
  if (serverState.value === 'there') return null
  return serverState.value === 'away' ? (
    <Notice tone="wait">Lookout does not answer. Nothing is lost; the page goes on as soon as it is back.</Notice>
  ) : (
    <Notice>Lookout is back.</Notice>
  )
}

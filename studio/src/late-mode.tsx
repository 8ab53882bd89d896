import { computed, type ReadonlySignal, signal } from '@preact/signals'
import type { ComponentType } from 'preact'
import { useEffect } from 'preact/hooks'
import type { Shortcut } from './keyboard/shortcut.ts'
import type { Clip, Mark } from './marks/mark.ts'
import type { StageTool } from './stage/image-stage.tsx'
import { Button } from './widgets/button.tsx'
import { Notice } from './widgets/notices/notice.tsx'

/** What a mode puts on the page. */
interface ModeContent {
  readonly Panel: ComponentType
  readonly marks?: ReadonlySignal<readonly Mark[]>
  readonly clips?: ReadonlySignal<readonly Clip[]>
  readonly tool?: ReadonlySignal<StageTool>
  /** What keys do in this mode alone. */
  readonly keys?: readonly Shortcut[]
  /** What it has to say in other modes. */
  readonly News?: ComponentType
}

/**
 * A mode whose code is fetched when it is opened, so that the page itself opens fast.
 * @param load imports it; a mode that sessions keep registers itself then.
 */
export function lateMode(load: () => Promise<ModeContent>) {
  const content = signal<ModeContent | null>(null)
  const isMissing = signal(false)
  let loading: Promise<void> | null = null
  /** Never rejects: without its code, the mode says so when it is opened. */
  const open = () => {
    loading ??= load().then(
      (loaded) => {
        content.value = loaded
      },
      () => {
        isMissing.value = true
      },
    )
    return loading
  }
  const Panel = () => {
    useEffect(() => void open(), [])
    if (content.value !== null) return <content.value.Panel />
    if (!isMissing.value) return <div class="panel-body" aria-busy="true" />
    return (
      <Notice tone="error" actions={<Button onClick={() => location.reload()}>Reload the page</Button>}>
        The server did not send this part of the page. It may be down, or newer than the page.
      </Notice>
    )
  }
  const News = () => {
    const Loaded = content.value?.News
    return Loaded ? <Loaded /> : null
  }
  return {
    open,
    Panel,
    News,
    marks: computed(() => content.value?.marks?.value ?? []),
    clips: computed(() => content.value?.clips?.value ?? []),
    tool: computed(() => content.value?.tool?.value ?? null),
    keys: computed(() => content.value?.keys ?? []),
  }
}

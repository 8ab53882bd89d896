import { type ReadonlySignal, signal } from '@preact/signals'
import type { ComponentType } from 'preact'
import { AskPanel } from './ask/ask-panel.tsx'
import { clips, marks } from './ask/conversation.ts'
import type { Clip, Mark } from './marks/mark.ts'
import type { StageTool } from './stage/image-stage.tsx'
import type { IconName } from './widgets/icon.tsx'

/** A way to work with the media on the stage: a panel beside it, and what it shows on it. */
export interface Mode {
  readonly id: string
  readonly title: string
  readonly icon: IconName
  readonly Panel: ComponentType
  readonly marks: ReadonlySignal<readonly Mark[]>
  readonly clips: ReadonlySignal<readonly Clip[]>
  readonly tool: ReadonlySignal<StageTool | null>
}

const none = signal(null)

export const MODES: readonly [Mode, ...Mode[]] = [
  { id: 'ask', title: 'Ask', icon: 'chat', Panel: AskPanel, marks, clips, tool: none },
]

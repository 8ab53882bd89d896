import { type ReadonlySignal, signal } from '@preact/signals'
import type { ComponentType } from 'preact'
import { AskPanel } from './ask/ask-panel.tsx'
import { clips, marks } from './ask/conversation.ts'
import type { Shortcut } from './keyboard/shortcut.ts'
import { lateMode } from './late-mode.tsx'
import type { Clip, Mark } from './marks/mark.ts'
import { loadForSessions } from './session/registry.ts'
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
  /** Whether it is about the media on the stage; true by default. */
  readonly hasStage?: boolean
  /** What keys do in this mode alone. */
  readonly keys?: ReadonlySignal<readonly Shortcut[]>
}

const multilook = lateMode(() => import('./multilook/multilook-mode.ts'))
const decisions = lateMode(() => import('./decisions/decisions-mode.ts'))
const detect = lateMode(() => import('./detect/detect-mode.ts'))
const structure = lateMode(() => import('./structure/structure-mode.ts'))
const watch = lateMode(() => import('./watch/watch-mode.ts'))
const server = lateMode(() => import('./server-status/server-mode.ts'))
for (const [name, { open }] of Object.entries({ multilook, decisions, detect, structure, watch }))
  loadForSessions(name, open)

/** News of the server for all modes. */
export const ServerNews = server.News

export const MODES: readonly [Mode, ...Mode[]] = [
  { id: 'ask', title: 'Ask', icon: 'chat', Panel: AskPanel, marks, clips, tool: signal(null) },
  { id: 'multilook', title: 'Multilook', icon: 'look', ...multilook },
  { id: 'decisions', title: 'Decisions', icon: 'decide', ...decisions },
  { id: 'detect', title: 'Detect', icon: 'detect', ...detect },
  { id: 'structure', title: 'Structure', icon: 'structure', ...structure },
  { id: 'watch', title: 'Watch', icon: 'watch', hasStage: false, ...watch },
  { id: 'server', title: 'Server', icon: 'server', hasStage: false, ...server },
]

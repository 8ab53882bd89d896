import { type ReadonlySignal, signal } from '@preact/signals'
import type { ComponentType } from 'preact'
import { AskPanel } from './ask/ask-panel.tsx'
import { clips, marks } from './ask/conversation.ts'
import { DetectPanel } from './detect/detect-panel.tsx'
import { stageMarks, stageTool } from './detect/stage.ts'
import { lateMode } from './late-mode.tsx'
import type { Clip, Mark } from './marks/mark.ts'
import { clips as lookClips, marks as lookMarks } from './multilook/look.ts'
import { MultilookPanel } from './multilook/multilook-panel.tsx'
import { loadForSessions } from './session/registry.ts'
import type { StageTool } from './stage/image-stage.tsx'
import { StructurePanel } from './structure/structure-panel.tsx'
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
const noMarks = signal<readonly Mark[]>([])
const noClips = signal<readonly Clip[]>([])

const decisions = lateMode(() => import('./decisions/decisions-mode.ts'))
loadForSessions('decisions', decisions.open)
const server = lateMode(() => import('./server-status/server-mode.ts'))
/** News of the server for all modes. */
export const ServerNews = server.News

export const MODES: readonly [Mode, ...Mode[]] = [
  { id: 'ask', title: 'Ask', icon: 'chat', Panel: AskPanel, marks, clips, tool: none },
  {
    id: 'multilook',
    title: 'Multilook',
    icon: 'look',
    Panel: MultilookPanel,
    marks: lookMarks,
    clips: lookClips,
    tool: none,
  },
  {
    id: 'decisions',
    title: 'Decisions',
    icon: 'decide',
    Panel: decisions.Panel,
    marks: decisions.marks,
    clips: decisions.clips,
    tool: none,
  },
  {
    id: 'detect',
    title: 'Detect',
    icon: 'detect',
    Panel: DetectPanel,
    marks: stageMarks,
    clips: noClips,
    tool: stageTool,
  },
  {
    id: 'structure',
    title: 'Structure',
    icon: 'structure',
    Panel: StructurePanel,
    marks: noMarks,
    clips: noClips,
    tool: none,
  },
  { id: 'server', title: 'Server', icon: 'server', Panel: server.Panel, marks: noMarks, clips: noClips, tool: none },
]

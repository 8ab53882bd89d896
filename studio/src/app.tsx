import { effect, signal, useSignalEffect } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { HelpDialog } from './keyboard/help-dialog.tsx'
import { focusDraft, helpIsShown, watchShortcuts } from './keyboard/shortcuts.ts'
import { fetching } from './media/address.ts'
import { attachments, intakeError } from './media/attachments.ts'
import { watchDropsAndPastes } from './media/intake.ts'
import { modeId, watchLinks } from './mode-choice.ts'
import { isUnderWay, shortText } from './models/examination.ts'
import { ModelNote } from './models/model-note.tsx'
import { MODES, ServerNews } from './modes.ts'
import { drawerIsOpen, RequestDrawer, toggleDrawer } from './request/request-drawer.tsx'
import { chooseModel, key, model, models, writers } from './server/connection.ts'
import { KeyDialog } from './server/key-dialog.tsx'
import { loadModels, modelsFailure } from './server/load-models.ts'
import { ServerNotice } from './server/server-notice.tsx'
import type { Model } from './server/wire.ts'
import { askStatus, engineOf, watchStatus } from './server-status/status.ts'
import { SessionNotices } from './session/session-notices.tsx'
import { SessionsDialog, sessionsAreShown } from './session/sessions-dialog.tsx'
import { Stage } from './stage/stage.tsx'
import { IconButton } from './widgets/button.tsx'
import { Icon } from './widgets/icon.tsx'
import { FailureNotice } from './widgets/notices/failure-notice.tsx'
import { ThemeButton } from './widgets/theme.tsx'

const isDragging = signal(false)

export function App() {
  useEffect(
    () =>
      watchDropsAndPastes((value) => {
        isDragging.value = value
      }),
    [],
  )
  useEffect(watchShortcuts, [])
  useEffect(watchLinks, [])
  useEffect(watchStage, [])
  const given = key.value
  useEffect(() => {
    if (given !== null) void loadModels()
  }, [given])
  useStatus()
  const mode = MODES.find(({ id }) => id === modeId.value) ?? MODES[0]
  const { hasStage = true } = mode
  return (
    <div class={`app ${drawerIsOpen.value ? 'with-drawer' : ''}`}>
      <button type="button" class="skip-link" onClick={focusDraft}>
        Skip to the question
      </button>
      <TopBar />
      <div class="notices">
        {modelsFailure.value && <FailureNotice failure={modelsFailure.value} onRetry={() => void loadModels()} />}
        <ServerNotice />
        <ServerNews />
        <SessionNotices />
      </div>
      <main class={`workspace ${hasStage ? '' : 'without-stage'}`}>
        <Stage marks={mode.marks.value} clips={mode.clips.value} tool={mode.tool.value} />
        <section id="panel" class="panel" aria-label={mode.title}>
          <mode.Panel />
          {mode.id !== 'server' && <ModelNote />}
        </section>
      </main>
      <RequestDrawer />
      {isDragging.value && <div class="drop-veil">Drop it anywhere</div>}
      <SessionsDialog />
      <HelpDialog mode={mode} />
      {given === null && <KeyDialog />}
    </div>
  )
}

function isOnStage(id: string): boolean {
  return MODES.find((mode) => mode.id === id)?.hasStage ?? true
}

/** New media bring the hidden stage back, and nothing plays there unseen. @returns a function that stops it. */
function watchStage(): () => void {
  let [before, count] = [MODES[0].id, attachments.peek().length]
  const stops = [
    effect(() => {
      if (isOnStage(modeId.value)) before = modeId.value
      else for (const media of document.querySelectorAll<HTMLMediaElement>('.stage :is(video, audio)')) media.pause()
    }),
    effect(() => {
      const isNews = attachments.value.length > count || intakeError.value !== null || fetching.value !== null
      count = attachments.value.length
      if (isNews && !isOnStage(modeId.peek())) modeId.value = before
    }),
  ]
  return () => {
    for (const stop of stops) stop()
  }
}

/** Asks what the server says of its models: once for each list of them, and again and again while that is looked at. */
function useStatus(): void {
  const isGiven = key.value !== null
  const engine = model.value && engineOf(model.value.id)
  // A model that was just fetched is not in the status that the server computed a moment ago.
  const isOpen = model.value !== null && (engine === null || isUnderWay(engine.examination))
  const isLookedAt = modeId.value === 'server' || isOpen
  useSignalEffect(() => {
    if (models.value.length > 0) void askStatus()
  })
  useEffect(() => (isGiven && isLookedAt ? watchStatus() : undefined), [isGiven, isLookedAt])
}

function TopBar() {
  const current = modeId.value
  return (
    <header class="top-bar">
      <h1 class="brand">
        <img src="/studio/icon.svg" alt="" width="26" height="26" />
        <span>Lookout</span>
      </h1>
      <nav class="modes" aria-label="Modes">
        {MODES.map(({ id, title, icon }, index) => (
          <button
            key={id}
            type="button"
            title={`${title} (Alt ${index + 1})`}
            aria-current={current === id ? 'page' : undefined}
            onClick={() => {
              modeId.value = id
            }}
          >
            <Icon name={icon} />
            <span>{title}</span>
          </button>
        ))}
      </nav>
      <ModelChoice />
      <div class="top-tools">
        <IconButton
          icon="clock"
          label="Sessions"
          onClick={() => {
            sessionsAreShown.value = true
          }}
        />
        <IconButton icon="code" label="Show the request" pressed={drawerIsOpen.value} onClick={toggleDrawer} />
        <ThemeButton />
        <IconButton
          icon="help"
          label="Help"
          onClick={() => {
            helpIsShown.value = true
          }}
        />
      </div>
    </header>
  )
}

/** A fetched model is named by its id: `owner/Name-GGUF:Q4_K_M`. The picker has room for the name. */
function shortName({ name }: Pick<Model, 'name'>): string {
  return name.replace(/^[^/]+\/([^:]+?)(?:-GGUF)?(?::.*)?$/i, '$1')
}

function ModelChoice() {
  // It has its place before the models are known: on a phone, all below would move under the finger.
  if (writers.value.length === 0) return <select class="model-choice awaited" disabled />
  const textOf = ({ id, name }: Model) => {
    const isAmbiguous = writers.value.some((other) => other.id !== id && shortName(other) === shortName({ name }))
    const title = isAmbiguous ? id : shortName({ name })
    const examined = shortText(engineOf(id)?.examination)
    return examined === null ? title : `${title} · ${examined}`
  }
  return (
    <select
      class="model-choice"
      aria-label="Model"
      title={model.value === null ? undefined : textOf(model.value)}
      value={model.value?.id}
      onChange={(event) => chooseModel(event.currentTarget.value)}
    >
      {writers.value.map((one) => (
        <option key={one.id} value={one.id}>
          {textOf(one)}
        </option>
      ))}
    </select>
  )
}

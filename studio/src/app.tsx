import { signal, useSignalEffect } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { focusDraft, watchShortcuts } from './keyboard/shortcuts.ts'
import { ShortcutsDialog } from './keyboard/shortcuts-dialog.tsx'
import { watchDropsAndPastes } from './media/intake.ts'
import { modeId, watchLinks } from './mode-choice.ts'
import { isUnderWay, shortText } from './models/examination.ts'
import { ModelNote } from './models/model-note.tsx'
import { MODES, ServerNews } from './modes.ts'
import { drawerIsOpen, RequestDrawer, toggleDrawer } from './request/request-drawer.tsx'
import { chooseModel, key, model, models } from './server/connection.ts'
import { KeyDialog } from './server/key-dialog.tsx'
import { loadModels, modelsFailure } from './server/load-models.ts'
import { ServerNotice } from './server/server-notice.tsx'
import type { Model } from './server/wire.ts'
import { askStatus, engineOf, watchStatus } from './server-status/status.ts'
import { SessionNotices } from './session/session-notices.tsx'
import { SessionsDialog, sessionsAreShown } from './session/sessions-dialog.tsx'
import { Stage } from './stage/stage.tsx'
import { IconButton } from './widgets/button.tsx'
import { FailureNotice } from './widgets/failure-notice.tsx'
import { Icon } from './widgets/icon.tsx'
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
  const given = key.value
  useEffect(() => {
    if (given !== null) void loadModels()
  }, [given])
  useStatus()
  const mode = MODES.find(({ id }) => id === modeId.value) ?? MODES[0]
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
      <main class="workspace">
        <Stage marks={mode.marks.value} clips={mode.clips.value} tool={mode.tool.value} />
        <section id="panel" class="panel" aria-label={mode.title}>
          <mode.Panel />
          {mode.id !== 'server' && <ModelNote />}
        </section>
      </main>
      <RequestDrawer />
      {isDragging.value && <div class="drop-veil">Drop it anywhere</div>}
      <SessionsDialog />
      <ShortcutsDialog />
      {given === null && <KeyDialog />}
    </div>
  )
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
  const modes = useRef<HTMLElement>(null)
  const current = modeId.value
  useEffect(() => {
    // On a narrow screen it may be out of sight.
    modes.current?.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' })
  }, [current])
  return (
    <header class="top-bar">
      <h1 class="brand">
        <img src="/studio/icon.svg" alt="" width="26" height="26" />
        Lookout
      </h1>
      <nav ref={modes} class="modes" aria-label="Modes">
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
      <div class="top-tools">
        <ModelChoice />
        <IconButton
          icon="clock"
          label="Sessions"
          onClick={() => {
            sessionsAreShown.value = true
          }}
        />
        <IconButton icon="code" label="Show the request" pressed={drawerIsOpen.value} onClick={toggleDrawer} />
        <ThemeButton />
      </div>
    </header>
  )
}

function ModelChoice() {
  if (models.value.length === 0) return null
  const textOf = ({ id, name }: Model) => {
    const title = models.value.some((other) => other.id !== id && other.name === name) ? id : name
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
      {models.value.map((one) => (
        <option key={one.id} value={one.id}>
          {textOf(one)}
        </option>
      ))}
    </select>
  )
}

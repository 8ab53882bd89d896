import { signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { focusDraft, watchShortcuts } from './keyboard/shortcuts.ts'
import { ShortcutsDialog } from './keyboard/shortcuts-dialog.tsx'
import { watchDropsAndPastes } from './media/intake.ts'
import { modeId } from './mode-choice.ts'
import { MODES } from './modes.ts'
import { drawerIsOpen, RequestDrawer, toggleDrawer } from './request/request-drawer.tsx'
import { chooseModel, key, model, models } from './server/connection.ts'
import { KeyDialog } from './server/key-dialog.tsx'
import { loadModels, modelsFailure } from './server/load-models.ts'
import { ServerNotice } from './server/server-notice.tsx'
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
  const given = key.value
  useEffect(() => {
    if (given !== null) void loadModels()
  }, [given])
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
        <SessionNotices />
      </div>
      <main class="workspace">
        <Stage marks={mode.marks.value} clips={mode.clips.value} tool={mode.tool.value} />
        <section id="panel" class="panel" aria-label={mode.title}>
          <mode.Panel />
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

function TopBar() {
  return (
    <header class="top-bar">
      <h1 class="brand">
        <img src="/studio/icon.svg" alt="" width="26" height="26" />
        Lookout
      </h1>
      <nav class="modes" aria-label="Modes">
        {MODES.map(({ id, title, icon }, index) => (
          <button
            key={id}
            type="button"
            title={`${title} (Alt ${index + 1})`}
            aria-current={modeId.value === id ? 'page' : undefined}
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
  return (
    <select
      class="model-choice"
      aria-label="Model"
      value={model.value?.id}
      onChange={(event) => chooseModel(event.currentTarget.value)}
    >
      {models.value.map(({ id }) => (
        <option key={id} value={id}>
          {id}
        </option>
      ))}
    </select>
  )
}

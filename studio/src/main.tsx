import { render } from 'preact'
import { App } from './app.tsx'
import { offerFiles } from './media/intake.ts'
import './session/page-parts.ts'
import { openFile } from './session/session-files.ts'
import { beginSessions } from './session/sessions.ts'
import './styles/base.css'
import './styles/widgets.css'
import './styles/layout.css'
import './styles/stage.css'
import './styles/chat.css'
import './styles/request.css'
import './styles/session.css'
import './styles/keyboard.css'
import './styles/media.css'

const root = document.getElementById('app')!
root.textContent = ''
// The session of this tab is there with the first paint: it takes some milliseconds, unless the browser is stuck. Not
// awaited by this module, which the modes that a session has to load import from.
void Promise.race([beginSessions(), new Promise((resolve) => setTimeout(resolve, 1000))]).then(() => {
  offerFiles(openFile)
  render(<App />, root)
})

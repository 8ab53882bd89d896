import { render } from 'preact'
import { App } from './app.tsx'
import './styles/base.css'
import './styles/widgets.css'
import './styles/layout.css'
import './styles/stage.css'
import './styles/chat.css'
import './styles/request.css'

const root = document.getElementById('app')!
root.textContent = ''
render(<App />, root)

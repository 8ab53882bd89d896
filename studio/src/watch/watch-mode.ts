import './watch-session.ts'
import '../styles/multilook.css'
import '../styles/server.css'
import '../styles/watch.css'

export { WatchPanel as Panel } from './watch-panel.tsx'

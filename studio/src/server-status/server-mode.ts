import '../styles/server.css'

export { ServerPanel as Panel } from './server-panel.tsx'

import '../styles/server.css'

export { PullNotice as News } from '../models/pull-done.tsx'
export { ServerPanel as Panel } from './server-panel.tsx'

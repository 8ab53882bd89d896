import './decisions-session.ts'
import '../styles/decisions.css'

export { clips, marks } from './decide.ts'
export { DecisionsPanel as Panel } from './decisions-panel.tsx'

import './look-session.ts'
import '../styles/multilook.css'

export { clips, marks } from './look.ts'
export { MultilookPanel as Panel } from './multilook-panel.tsx'

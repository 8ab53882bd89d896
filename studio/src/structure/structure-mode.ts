import './structure-session.ts'
import '../styles/structure.css'

export { StructurePanel as Panel } from './structure-panel.tsx'

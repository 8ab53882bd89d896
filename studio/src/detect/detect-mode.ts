import './detect-session.ts'
import '../styles/detect.css'

export { DetectPanel as Panel } from './detect-panel.tsx'
export { KEYS as keys } from './keys.ts'
export { stageMarks as marks, stageTool as tool } from './stage.ts'

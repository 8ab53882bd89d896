import './detect-session.ts'
import '../styles/detect.css'

export { DetectPanel as Panel } from './detect-panel.tsx'
export { KEYS as keys } from './labelling/keys.ts'
export { labellingTool as tool } from './labelling/labelling.ts'
export { stageMarks as marks } from './stage.ts'

import { QuestionStore } from '../questions/question-store.ts'

export const questions = new QuestionStore(16, (question) => question)

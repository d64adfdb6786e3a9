"""`make same`: whether two commits give the same schedules, results, timelines and texts, and how long each takes."""

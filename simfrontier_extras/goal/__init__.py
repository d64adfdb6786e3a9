"""Steps of plans as GOAL text, which LogGOPSim simulates: sends, receives and calculations of every rank."""

"""coevo: skill and parameter co-evolution for LangGraph agents."""

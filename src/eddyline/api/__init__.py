"""The public face: workload, plan and state, thin fronts over the rooms below."""

"""How large everything is: memory shared out so that the average or the largest error is least."""

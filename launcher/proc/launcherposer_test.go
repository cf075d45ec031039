package proc_test

func poseAsLauncher([]string) int { return 0 }
